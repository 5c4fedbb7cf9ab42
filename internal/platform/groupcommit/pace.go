package groupcommit

import "time"

const (
	settleGroups = 8     // groups after a change that are not measured
	trialGroups  = 64    // groups that are measured with each number
	keptGroups   = 4_096 // groups until the next trial
)

// pace decides by measurement whether two groups are served at once or one: a second one uses a processor that
// the first leaves idle, or it waits for the same rows and the same disk. A trial takes the time for each request,
// first with two groups and then with one, and the faster number is kept for a while. Only groups count behind
// which enough callers waited for a second one.
type pace struct {
	isOne            bool // one group at a time
	isKept           bool // the number won its trial; otherwise it is on trial
	groups, requests int  // of the present part
	began            time.Time
	ofTwo            time.Duration // time for each request with two groups in the present trial
}

// groupsMax returns how many groups are served at once.
func (p *pace) groupsMax() int {
	if p.isOne {
		return 1
	}
	return 2
}

// note counts a group that was served. isBusy says whether callers enough for a second one waited meanwhile.
func (p *pace) note(now time.Time, requests int, isBusy bool) {
	if !isBusy {
		if !p.isKept {
			*p = pace{}
		}
		return
	}
	p.groups++
	switch {
	case p.isKept:
		if p.groups >= keptGroups {
			*p = pace{}
		}
	case p.groups == settleGroups:
		p.began, p.requests = now, 0
	case p.groups > settleGroups:
		p.requests += requests
		if p.groups == settleGroups+trialGroups {
			p.endPart(now)
		}
	}
}

// endPart ends the measurement with the present number of groups.
func (p *pace) endPart(now time.Time) {
	perRequest := now.Sub(p.began) / time.Duration(p.requests)
	if p.isOne {
		*p = pace{isOne: perRequest < p.ofTwo, isKept: true}
		return
	}
	*p = pace{isOne: true, ofTwo: perRequest}
}
