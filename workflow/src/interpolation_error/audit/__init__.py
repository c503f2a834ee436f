"""What is checked and told of a run: verification, comparison, pages, crate."""
