"""The statements of the store, one file for each thing that is kept; both databases understand them."""
