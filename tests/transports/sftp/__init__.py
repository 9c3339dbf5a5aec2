"""Tests of the SFTP backend alone; what every backend promises is in `transports.contract`."""
