"""What all rooms share: devices, processes, precision, seeds, files, progress, animations."""
