"""What becomes of a delivery that cannot be handled now: it is delayed, rests, or is parked."""
