"""Log files of workers: kept small while they are written, and read by offsets that stay true."""
