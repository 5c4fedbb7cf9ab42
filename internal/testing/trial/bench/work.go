package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

// work is what a figure cost. Other programs on the machine change only its share of the machine.
type work struct {
	process  time.Duration // processor time of this process and its children: the service and its callers
	database time.Duration // processor time of the server's processes
	wal      int64         // bytes of write-ahead log
	busy     time.Duration // processor time of everything on the machine
	length   time.Duration // of the clock
}

// subtract returns the work since start.
func (c work) subtract(start work) work {
	return work{
		c.process - start.process, c.database - start.database, c.wal - start.wal, c.busy - start.busy,
		c.length - start.length,
	}
}

// add returns the work of both.
func (c work) add(extra work) work {
	return work{
		c.process + extra.process, c.database + extra.database, c.wal + extra.wal, c.busy + extra.busy,
		c.length + extra.length,
	}
}

// formatEach formats what each of n operations cost, and the other load of the machine meanwhile.
func (c work) formatEach(n int) string {
	count := time.Duration(max(1, n))
	text := fmt.Sprintf("CPU each: %s here, %s in the database", formatDuration(c.process/count),
		formatDuration(c.database/count))
	if c.wal > 0 {
		text += fmt.Sprintf("; %.1f kB of WAL", float64(c.wal)/float64(max(1, n))/1000)
	}
	return text + c.formatOtherLoad()
}

// formatOtherLoad formats how many processors other programs used on average; empty if the system does not say.
func (c work) formatOtherLoad() string {
	if c.busy <= 0 || c.length <= 0 {
		return ""
	}
	return fmt.Sprintf("; other load %.1f cores", max(0, float64(c.busy-c.process-c.database)/float64(c.length)))
}

var started = time.Now()

// readWork reads the work with that of the server of the bench.
func (w *benchEnv) readWork() work {
	c := readWork(w.cluster)
	ctx, cancel := context.WithTimeout(context.Background(), walReadTimeout)
	defer cancel()
	if w.meter == nil {
		w.meter, _ = pgx.Connect(ctx, w.cluster.SuperURL("postgres"))
	}
	if w.meter != nil {
		// Without an answer the figure has no WAL.
		_ = w.meter.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&c.wal)
	}
	return c
}

const walReadTimeout = 5 * time.Second

// readWork reads the processor time; a value that the operating system does not report is zero.
func readWork(cluster *local.Cluster) (c work) {
	c.length = time.Since(started)
	c.busy = readBusy()
	for _, usageKind := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if syscall.Getrusage(usageKind, &used) == nil {
			c.process += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	text, err := os.ReadFile(filepath.Join(cluster.Dir(), "data", "postmaster.pid"))
	if err != nil {
		return c
	}
	postmaster, _, _ := strings.Cut(string(text), "\n")
	statFiles, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range statFiles {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// The name, in brackets, may contain any character; the text after it does not contain
		// brackets.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		const parent, user, childrensSystem = 1, 11, 14
		if len(fields) <= childrensSystem {
			continue
		}
		// The server's first process also counts what its ended children have spent.
		count := fields[user : user+2]
		if filepath.Base(filepath.Dir(path)) == postmaster {
			count = fields[user : childrensSystem+1]
		} else if fields[parent] != postmaster {
			continue
		}
		for _, field := range count {
			ticks, _ := strconv.ParseInt(field, 10, 64)
			c.database += time.Duration(ticks) * procTick
		}
	}
	return c
}

// readBusy returns the processor time that all programs of the machine have used.
func readBusy() (busy time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	// user, nice, system, idle, iowait, irq, softirq, steal
	for _, i := range []int{1, 2, 3, 6, 7} {
		if i < len(fields) {
			ticks, _ := strconv.ParseInt(fields[i], 10, 64)
			busy += time.Duration(ticks) * procTick
		}
	}
	return busy
}

// procTick is the unit of /proc, the same on every Linux that Go runs on.
const procTick = 10 * time.Millisecond
