"""The skeleton of a daemon: messages, the server that answers them, and the two clients that send them."""
