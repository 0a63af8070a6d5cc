"""Where the servers are: URLs taken apart. What is printed of them shows no secret."""
