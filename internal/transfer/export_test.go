package transfer

// WaitingMax is the limit of waiting requests of one organization.
const WaitingMax = waitingMax

// Waiting returns how many requests of an organization wait and are in no group yet.
func (s *Service) Waiting(org string) int { return s.orgWriter(org).WaitingCount() }

// BesideMin is how many waiting requests start a second group in parallel.
const BesideMin = parallelMin
