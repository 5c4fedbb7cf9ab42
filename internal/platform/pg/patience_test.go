package pg

import "testing"

// A statement that waits behind a waiting migration is served before its own lock timeout ends.
func TestAMigrationIsLessPatientThanTheService(t *testing.T) {
	t.Parallel()
	if most := (Config{}).withDefaults().LockTimeout; 2*migrateLockMax >= most {
		t.Errorf("got %v for a step of a migration, want less than half of %v", migrateLockMax, most)
	}
}
