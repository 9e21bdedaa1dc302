"""Answer quality: graded answers, accuracy, agreement."""
