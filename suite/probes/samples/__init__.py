"""What a trained model leaves for people to see."""
