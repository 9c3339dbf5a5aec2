"""A folder of this machine: POSIX calls below a folder that is opened, never a path that is trusted."""
