"""What every room shares, each written once: devices, processes, precision, seeds, files, progress, animations."""
