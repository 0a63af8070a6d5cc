"""The load of a day: how many runs are due in each minute, and what would spread them."""
