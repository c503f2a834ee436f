"""Write digits.h5 from the digits that scikit-learn ships, as the figure uses them.

The data are the UCI Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak,
1998, doi:10.24432/C50P49, CC BY 4.0).
"""

from pathlib import Path

import h5py
import numpy as np
from sklearn.datasets import load_digits


def arrays() -> dict[str, np.ndarray]:
    """Return tokens of shape (dimension, tokens) and labels, even -1 and odd +1."""
    images, digits = load_digits(return_X_y=True)
    labels = np.where(digits % 2 == 1, 1, -1)
    varies = [images[labels == sign].std(axis=0) > 0 for sign in (1, -1)]
    tokens = images[:, varies[0] & varies[1]].T
    return {"tokens": tokens.astype(np.uint8), "labels": labels.astype(np.int8)}


if __name__ == "__main__":
    path = Path(__file__).with_name("digits.h5")
    with h5py.File(path, "w") as file:
        for name, array in arrays().items():
            file.create_dataset(name, data=array, compression="gzip", shuffle=True)
