package localworld

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stoppingMax is how long a world waits for the lock of one that is stopping and has already
// removed its description.
const stoppingMax = 30 * time.Second

// lockFolder locks the folder of the description for this world until the caller closes the
// returned file or the process dies. The lock leaves nothing to clean up. A description that still
// exists then belongs to a killed world. lockFolder removes it, so that it is not mistaken for this
// world's.
func lockFolder(ctx context.Context, opts Options) (lock *os.File, err error) {
	description := filepath.Join(opts.Dir, InfoFile)
	if err := os.MkdirAll(filepath.Dir(description), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the description: %w", err)
	}
	if lock, err = os.Open(filepath.Dir(description)); err != nil {
		return nil, fmt.Errorf("open the folder of the description: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
			lock = nil
		}
	}()
	for waited := time.Duration(0); ; waited += pollInterval {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return lock, fmt.Errorf("lock the folder of the description: %w", err)
		}
		if _, err := os.Stat(description); err == nil || waited >= stoppingMax {
			return lock, fmt.Errorf(
				"a local world already runs in %s: use it (%s describes it), end it with Ctrl-C, or start this one "+
					"in another folder",
				opts.Dir, InfoFile,
			)
		}
		if waited == 0 {
			opts.Progress("waiting for the world that is starting or stopping here")
		}
		select {
		case <-ctx.Done():
			return lock, ctx.Err()
		case <-time.After(pollInterval):
		}
	}
	if err := os.Remove(description); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return lock, fmt.Errorf("remove the description of a world that has ended: %w", err)
	}
	return lock, nil
}

const pollInterval = 100 * time.Millisecond
