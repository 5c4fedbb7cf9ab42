package transfer

// WaitingMax is how many of one organization may wait.
const WaitingMax = waitingMax

// Waiting is how many of an organization wait and were not taken yet.
func (s *Service) Waiting(org string) int { return s.orgWriter(org).WaitingCount() }

// BesideMin is how many have to wait for a second group.
const BesideMin = parallelMin
