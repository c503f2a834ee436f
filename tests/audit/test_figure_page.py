"""Parts of a figure's page: caption, residuals, numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interpolation_error.audit.pages import figure_page


def test_a_caption_can_neither_read_a_file_nor_pass_html():
    said = figure_page.html(
        ".. raw:: html\n\n   <script>1</script>\n\n.. include:: /etc/passwd\n\n<b>a</b>"
    )
    assert "<script>" not in said
    assert "root:" not in said
    assert "&lt;b&gt;a&lt;/b&gt;" in said


def test_residuals_are_counted_by_curve_and_infinite_ones_left_out():
    table = pd.DataFrame(
        {
            "panel": "a",
            "curve": ["b", "b", "b", "b", "c"],
            "simulated_mean": [1.0, 1.0, 1.0, np.nan, 1.0],
            "replicates": 5,
            "residual_in_standard_errors": [3.0, -4.0, -np.inf, 1.0, np.nan],
            "residual_at_finite_size": np.nan,
        }
    )
    first, second = figure_page.residuals(table)
    assert first["points"] == 3
    assert first["limit"] == {
        "within": 0.5,
        "rms": pytest.approx(12.5**0.5),
        "largest": 4,
    }
    assert first["finite_size"] is second["limit"] is None
    assert first["expected"] == pytest.approx(1 - 2 * stats.t.sf(3, 4))
