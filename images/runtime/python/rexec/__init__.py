"""What a function in an environment can import of Rexec; the rest of the public client is the caller's side."""
