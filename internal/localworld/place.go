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

// A world that is stopping has already taken its description away; the next one
// waits for it this long.
const stoppingMax = 30 * time.Second

// occupy makes a folder this world's own until the file that it returns is
// closed, or the process dies: a lock on the folder of the description, which
// leaves nothing to clean up. A description that is still there then belongs to
// a world that was killed, and goes, so that nobody takes it for this one's.
func occupy(ctx context.Context, opts Options) (place *os.File, err error) {
	description := filepath.Join(opts.Dir, File)
	if err := os.MkdirAll(filepath.Dir(description), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the description: %w", err)
	}
	if place, err = os.Open(filepath.Dir(description)); err != nil {
		return nil, fmt.Errorf("open the folder of the description: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, place.Close())
			place = nil
		}
	}()
	for waited := time.Duration(0); ; waited += pollEvery {
		err := syscall.Flock(int(place.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return place, fmt.Errorf("lock the folder of the description: %w", err)
		}
		if _, err := os.Stat(description); err == nil || waited >= stoppingMax {
			return place, fmt.Errorf("a local world runs in %s already: use it (%s describes it), end it with Ctrl-C, or start this one in another folder", opts.Dir, File)
		}
		if waited == 0 {
			opts.Progress("waiting for the world that is starting or stopping here")
		}
		select {
		case <-ctx.Done():
			return place, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
	if err := os.Remove(description); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return place, fmt.Errorf("remove the description of a world that is gone: %w", err)
	}
	return place, nil
}

const pollEvery = 100 * time.Millisecond
