"""The environments that come with envweave, one file each. None of them knows another."""
