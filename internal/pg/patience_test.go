package pg

import "testing"

// Whoever waits behind a migration that waits is served before its own patience ends.
func TestAMigrationIsLessPatientThanTheService(t *testing.T) {
	t.Parallel()
	if most := (Config{}).withDefaults().LockTimeout; 2*migrateLockMax >= most {
		t.Errorf("got %v for a step of a migration, want less than half of %v", migrateLockMax, most)
	}
}
