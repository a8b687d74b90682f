"""The harvester's side of the web: which addresses may be asked, how one request is made, and what robots.txt says."""
