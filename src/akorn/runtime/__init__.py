"""What every room shares, each written once: devices, processes, random states, files, pictures."""
