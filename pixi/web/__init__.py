"""What the web offers to tools: pages, searches, wikis and moving pictures, each read into plain values."""
