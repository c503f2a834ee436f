"""What a run is made of: its configuration, every array by key, files, resources."""
