package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

// cpuTime is the processor time spent by this process and its children (the service and its
// callers) and by the server's processes. Other programs on the machine do not change it, and it
// shows what a figure is made of.
type cpuTime struct{ process, database time.Duration }

func (c cpuTime) subtract(start cpuTime) cpuTime {
	return cpuTime{c.process - start.process, c.database - start.database}
}

// readCPUTime reads the processor time with that of the server of the bench.
func (w *benchEnv) readCPUTime() cpuTime { return readCPUTime(w.cluster) }

// readCPUTime reads the processor time; a value that the operating system does not report is zero.
func readCPUTime(cluster *local.Cluster) (c cpuTime) {
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

// procTick is the unit of /proc, the same on every Linux that Go runs on.
const procTick = 10 * time.Millisecond
