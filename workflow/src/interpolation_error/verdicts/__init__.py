"""What is said of the figures: statements, judged from the arrays that they show."""
