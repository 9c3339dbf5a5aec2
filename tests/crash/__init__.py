"""Real processes on real servers, killed, frozen and cut at every step and at random: nothing is lost, and drops heal."""
