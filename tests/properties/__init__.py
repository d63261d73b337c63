"""What must hold for every input, searched with Hypothesis."""
