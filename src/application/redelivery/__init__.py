"""What cannot be handled yet, or ever: put off, resting, parked."""
