"""What the paper defines: nonlinearities, tokens, weights, and settings of them."""
