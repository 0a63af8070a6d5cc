"""What a scheduler does each round: claim, send again, give up, clean up."""
