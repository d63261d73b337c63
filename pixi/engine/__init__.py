"""The one loop: a message in, a reply performed. One mailbox and one task per conversation."""
