"""Training that several stages share: launch, loop, optimizer, schedule, checkpoints, gates."""
