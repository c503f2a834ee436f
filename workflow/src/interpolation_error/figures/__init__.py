"""What is shown: figures, their predicted lines, tables and pictures."""
