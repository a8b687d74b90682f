"""What is measured, and the webs it is measured on: nothing here is installed."""
