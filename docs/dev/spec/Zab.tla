-------------------------------- MODULE Zab --------------------------------
(***************************************************************************)
(* The replication of zkd, as zab.md describes it and server/zab does it:  *)
(* elections, synchronization, broadcast, what is durable when, servers    *)
(* that were wiped and their admission, changes of the members.            *)
(* README.md says how to run it and what it leaves out.                    *)
(*                                                                         *)
(* A message is not an object of its own where what it can say follows     *)
(* from something that only grows: all entries that the leader of epoch e  *)
(* has ever sent are in sent[e], its newest COMMIT is told[e], and the     *)
(* newest acknowledgements are in acks. A server may take from there at    *)
(* any time, or never. So each message may be lost, repeated, delayed,     *)
(* even beyond the life of its sender.                                     *)
(*                                                                         *)
(* Pre-votes and timeouts decide only when a server stands for election    *)
(* and when it leaves a leader. Here it may do both at any time.           *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Servers,
  Voters,      \* the list of members that the ensemble is founded with
  Founded,     \* whether it exists at the beginning
  Renewals,    \* whether leaders renew their epochs
  Snapshots,   \* whether leaders also send snapshots
  MaxEpoch, MaxTxns, MaxCrashes, MaxWipes, MaxLists, \* bounds of the model
  Nobody,      \* no server
  Faults       \* rules that are left out, by their names in server/zab/mutant.go if it has them; {} is the specification

VARIABLES
  \* volatile state of each server
  role,     \* "looking", "candidate", "leader", "follower" or "halted"
  epoch,    \* the epoch that it leads or follows
  promise,  \* the highest epoch promised, and to which server; written, but perhaps not durable
  log,      \* its history, in the same sense
  commit,   \* how many entries of it are known to be committed
  \* its disk
  disk,     \* what a crash leaves: promise, log, and the hint up to where the log is committed
  pending,  \* records that are written and not durable, in order
  life,     \* its incarnation: a wiped disk gets a new one
  \* messages, which stay for ever
  offers,   \* NEWEPOCH
  granted,  \* ACKEPOCH
  sent,     \* APPEND: for each epoch the longest history that its leader had
  told,     \* COMMIT: for each epoch the newest
  acks,     \* ACK: for each epoch and server the newest
  \* what no server knows
  leaders,  \* each epoch with the servers that have led it
  done,     \* the longest history that was ever committed
  synced,   \* of each server, its last SYNC; only for the fault "stale-sync-obeyed"
  left      \* what of the bounds is left

server   == <<role, epoch, promise, log, commit>>
messages == <<offers, granted, sent, told, acks>>
ghost    == <<leaders, done, synced>>
vars     == <<role, epoch, promise, log, commit, disk, pending, life, offers, granted, sent, told, acks, leaders, done, synced, left>>

Fault(f) == f \in Faults
Epochs   == 1..MaxEpoch
None     == <<0, Nobody>>

-----------------------------------------------------------------------------
(* Histories. An entry is <<epoch, counter, kind, data>>, and the first two are its zxid. The kinds are:           *)
(*   "found"   begins the history of an ensemble; the data is the set of the servers admitted, with incarnations     *)
(*   "marker"  begins an epoch, with the counter 0; the data is its leader                                           *)
(*   "txn"     a transaction                                                                                         *)
(*   "admit"   admits <<server, incarnation>>                                                                        *)
(*   "list"    the set of voters from here on                                                                        *)

Last(l)    == IF l = <<>> THEN <<0, 0>> ELSE <<l[Len(l)][1], l[Len(l)][2]>>
Upto(a, b) == a[1] < b[1] \/ (a[1] = b[1] /\ a[2] <= b[2])   \* of zxids: a <= b
Min(a, b)  == IF a < b THEN a ELSE b
Max(S)     == CHOOSE m \in S : \A n \in S : n <= m
Prefix(a, b) == Len(a) <= Len(b) /\ a = SubSeq(b, 1, Len(a))

\* The length of what two histories have in common, by their zxids alone: commonPoint in state.go.
Same(x, y)   == x[1] = y[1] /\ x[2] = y[2]
RECURSIVE CommonUpto(_, _, _)
CommonUpto(a, b, i) ==
  IF i = 0 THEN 0 ELSE IF \E j \in 1..Len(b) : Same(a[i], b[Len(b) + 1 - j]) THEN i ELSE CommonUpto(a, b, i - 1)
Common(a, b) == CommonUpto(a, b, Len(a))

\* How much of its history a server has on its disk.
Durable(s) == IF disk[s].log = log[s] THEN Len(log[s]) ELSE Common(disk[s].log, log[s])

\* A history is an ensemble's from its first marker on.
Seeded(l) == l # <<>>

\* The admissions that count in a history of which n entries are committed: history.admits in history.go.
AdmitsAt(x) == IF x[3] = "found" THEN x[4] ELSE IF x[3] = "admit" THEN {x[4]} ELSE {}
Admitted(l, n) ==
  LET upto == IF n = 0 THEN Min(1, Len(l)) ELSE n
  IN {a \in UNION {AdmitsAt(l[i]) : i \in 1..upto} :
        \E i \in 1..upto : a \in AdmitsAt(l[i]) /\ \A k \in (i+1)..upto : \A b \in AdmitsAt(l[k]) : b[1] # a[1]}

\* Where no server ever lacks its data, all count.
AllCount == Founded /\ MaxWipes = 0 /\ Voters = Servers
Admits(l, n, s, i) == AllCount \/ Fault("wiped-server-votes") \/ <<s, i>> \in Admitted(l, n)

\* What a server knows to be committed. Where that decides nothing, because neither admissions nor lists change, it is
\* known at once: that makes the fewest states, and the invariants are the stricter for it.
Lazy == ~AllCount \/ MaxLists > 0
Known(s, l, n) == IF Lazy \/ Min(n, Len(l)) < commit[s] THEN commit[s] ELSE Min(n, Len(l))

\* The lists of members in force: the last committed one and those after it, up to the entry m.
ListsUpto(l, n, m) == IF MaxLists = 0 THEN {Voters} ELSE
  LET old == {i \in 1..n : l[i][3] = "list"}
  IN {IF old = {} THEN Voters ELSE l[Max(old)][4]} \cup {l[i][4] : i \in {i \in (n+1)..m : l[i][3] = "list"}}
Lists(l, n) ==
  LET new == {i \in (n+1)..Len(l) : l[i][3] = "list"}
  IN IF Fault("one-configs-quorum") /\ new # {} THEN {l[Max(new)][4]} ELSE ListsUpto(l, n, Len(l))

Majority(Q, list) == 2 * Cardinality(Q \cap list) > Cardinality(list)
Quorum(Q, lists)  == \A list \in lists : Majority(Q, list)
Voter(s, l, n)    == \E list \in Lists(l, n) : s \in list

\* Whether a server counts, in its own opinion.
Counts(s) == AllCount \/ (Seeded(log[s]) => Admits(log[s], commit[s], s, life[s]))

-----------------------------------------------------------------------------
\* The disk. A record becomes durable after those before it, and a crash may come between any two.

Apply(d, r) ==
  CASE r[1] = "promise"  -> [d EXCEPT !.promise = r[2]]
    [] r[1] = "append"   -> [d EXCEPT !.log = Append(@, r[2])]
    [] r[1] = "truncate" -> [d EXCEPT !.log = SubSeq(@, 1, r[2])]
    [] r[1] = "snapshot" -> [d EXCEPT !.log = r[2], !.hint = Len(r[2])]
    [] r[1] = "hint"     -> [d EXCEPT !.hint = r[2]]

Write(s, records) == pending' = [pending EXCEPT ![s] = @ \o records]

\* The hint has been durable with which a server will know after a restart that it counts: Core.selfCountedAt.
KnowsThatItCounts(s, d) ==
  LET mine == {i \in 1..Len(d.log) : <<s, life[s]>> \in AdmitsAt(d.log[i])}
  IN AllCount \/ Fault("damaged-counted-before-admit") \/ 1 \in mine \/ \E i \in mine : i <= d.hint

\* An acknowledgement says up to where the history is durable, and whether the server counts.
Ack(s, e, d, n) == acks' = {a \in acks : a[1] # e \/ a[2] # s} \cup {<<e, s, n, life[s], KnowsThatItCounts(s, d)>>}

\* An offer says which history its sender has: the end; and the lists in force, and the servers that its first marker
\* admits if that is not committed (FlagListed).
Offer(s, p) == offers' = offers \cup {<<p[1], s, Last(log[s]),
  IF ~Lazy THEN {} ELSE Lists(log[s], commit[s]), IF Lazy /\ commit[s] = 0 /\ Seeded(log[s]) THEN AdmitsAt(log[s][1]) ELSE {}>>}
\* An acknowledged promise says whether its sender has an ensemble's history.
Grant(s, p) == granted' = granted \cup {<<p[1], s, life[s], p[2], Seeded(log[s])>>}

\* The oldest record that is not durable becomes so. What waited for it is sent: promises, NEWEPOCH and ACKEPOCH,
\* and acknowledgements, for which nothing but entries may be missing on the disk.
Sync(s) ==
  /\ pending[s] # <<>>
  /\ LET r == Head(pending[s])
         d == Apply(disk[s], r)
         rest == Tail(pending[s])
         promised == r[1] = "promise" /\ r[2] = promise[s]
     IN /\ disk' = [disk EXCEPT ![s] = d]
        /\ pending' = [pending EXCEPT ![s] = rest]
        /\ IF promised /\ promise[s][2] = s THEN Offer(s, promise[s]) ELSE UNCHANGED offers
        /\ IF promised /\ promise[s][2] # s THEN Grant(s, promise[s]) ELSE UNCHANGED granted
        /\ IF role[s] = "follower" /\ \A i \in 1..Len(rest) : rest[i][1] \in {"append", "hint"}
           THEN Ack(s, epoch[s], d, Len(d.log)) ELSE UNCHANGED acks
  /\ UNCHANGED <<server, life, sent, told, ghost, left>>

\* A server writes up to where its history is committed. Nothing waits for it but KnowsThatItCounts.
Hint(s) ==
  /\ Lazy
  /\ LET n == Min(commit[s], Durable(s)) IN
     /\ n > disk[s].hint /\ \A i \in 1..Len(pending[s]) : pending[s][i][1] \notin {"hint", "truncate", "snapshot"}
     /\ Write(s, <<<<"hint", n>>>>)
  /\ UNCHANGED <<server, disk, life, messages, ghost, left>>

-----------------------------------------------------------------------------
\* Elections.

\* A server stands for election: it promises itself an epoch, of which it tells others when that is durable.
Campaign(s, e) ==
  /\ role[s] # "halted"
  /\ e > promise[s][1] \/ (Fault("epoch-reused-after-restart") /\ role[s] = "looking" /\ promise[s] = <<e, s>>)
  /\ Voter(s, log[s], commit[s]) /\ Counts(s)
  /\ role' = [role EXCEPT ![s] = "candidate"]
  /\ epoch' = [epoch EXCEPT ![s] = e]
  /\ promise' = [promise EXCEPT ![s] = <<e, s>>]
  /\ Write(s, <<<<"promise", <<e, s>>>>>>)
  /\ IF Fault("newepoch-before-fsync") THEN Offer(s, <<e, s>>) ELSE UNCHANGED offers
  /\ UNCHANGED <<log, commit, disk, life, granted, sent, told, acks, ghost, left>>

Active(s) == role[s] = "leader" /\ promise[s][1] = epoch[s] /\ commit[s] > 0 /\ log[s][commit[s]][1] = epoch[s]

\* A leader asks for promises of a higher epoch, and continues to lead its own until it has them.
Renew(s, e) ==
  /\ Renewals /\ Active(s) /\ e > epoch[s]
  /\ promise' = [promise EXCEPT ![s] = <<e, s>>]
  /\ Write(s, <<<<"promise", <<e, s>>>>>>)
  /\ UNCHANGED <<role, epoch, log, commit, disk, life, messages, ghost, left>>

\* mayVote in election.go.
MayVote(s, o) ==
  \/ AllCount \/ Fault("wiped-server-votes")
  \/ IF Seeded(log[s]) THEN Counts(s) ELSE o[3] # <<0, 0>> => <<s, life[s]>> \in o[5]

\* A server promises an epoch: to a candidate whose history is not shorter than its own, and to one server only.
MayPromise(s, o) ==
  /\ role[s] # "halted" /\ o[2] # s
  /\ o[1] > promise[s][1] \/ Fault("lower-epoch-promised") \/ (Fault("promise-repointed") /\ o[1] = promise[s][1] /\ o[2] # promise[s][2])
  /\ Upto(Last(log[s]), o[3]) \/ Fault("promise-without-history-check")
  /\ o[1] > Last(log[s])[1]
  /\ Lazy => \E list \in o[4] : s \in list
  /\ MayVote(s, o)
Promise(s, o) ==
  /\ MayPromise(s, o)
  /\ promise' = [promise EXCEPT ![s] = <<o[1], o[2]>>]
  /\ IF Fault("old-epoch-accepted") /\ role[s] = "follower"
     THEN UNCHANGED <<role, epoch>>
     ELSE role' = [role EXCEPT ![s] = "looking"] /\ epoch' = [epoch EXCEPT ![s] = 0]
  /\ Write(s, <<<<"promise", <<o[1], o[2]>>>>>>)
  /\ IF Fault("ackepoch-before-fsync") THEN Grant(s, <<o[1], o[2]>>) ELSE UNCHANGED granted
  /\ UNCHANGED <<log, commit, disk, life, offers, sent, told, acks, ghost, left>>

\* A server promises the epoch of a leader that has it already: no other server can get it.
Join(s, e, by) ==
  /\ role[s] # "halted" /\ by # s
  /\ e >= promise[s][1] /\ promise[s] # <<e, by>>
  /\ Upto(Last(log[s]), Last(sent[e]))
  /\ promise' = [promise EXCEPT ![s] = <<e, by>>]
  /\ role' = [role EXCEPT ![s] = "looking"] /\ epoch' = [epoch EXCEPT ![s] = 0]
  /\ Write(s, <<<<"promise", <<e, by>>>>>>)
  /\ UNCHANGED <<log, commit, disk, life, messages, ghost, left>>

\* With durable promises of a quorum a server leads the epoch, which begins with a marker after its history.
\* The promises G have arrived. Those that found an ensemble are admitted by its first entry.
Granted(s) == {g \in granted : g[1] = promise[s][1] /\ g[4] = s /\ IF Seeded(log[s]) THEN Admits(log[s], commit[s], g[2], g[3]) ELSE ~g[5]}
Establish(s, G) ==
  LET e  == promise[s][1]
      x  == IF Seeded(log[s]) THEN <<e, 0, "marker", s>> ELSE <<e, 0, "found", {<<s, life[s]>>} \cup {<<g[2], g[3]>> : g \in G}>>
  IN /\ role[s] = "candidate" \/ (role[s] = "leader" /\ e > epoch[s])
     /\ disk[s].promise = promise[s] \/ Fault("newepoch-before-fsync")
     /\ Quorum({s} \cup {g[2] : g \in G}, Lists(log[s], commit[s])) /\ Counts(s)
     /\ role' = [role EXCEPT ![s] = "leader"]
     /\ epoch' = [epoch EXCEPT ![s] = e]
     /\ log' = [log EXCEPT ![s] = Append(@, x)]
     /\ sent' = [sent EXCEPT ![e] = log'[s]]
     /\ leaders' = leaders \cup {<<e, s>>}
     /\ Write(s, <<<<"append", x>>>>)
     /\ UNCHANGED <<promise, commit, disk, life, offers, granted, told, acks, done, synced, left>>

-----------------------------------------------------------------------------
(* Synchronization. The leader of an epoch that a server has promised tells it to drop what the leader's history     *)
(* lacks. In the code the answer names the summary that it answers, and is obeyed only if the history is still that  *)
(* of the summary. Then it says what is computed here: after the summary only the leader's history can have grown,   *)
(* and what the two have in common stays the same.                                                                   *)

Follow(s, at, records, l) ==
  /\ role' = [role EXCEPT ![s] = "follower"]
  /\ epoch' = [epoch EXCEPT ![s] = promise[s][1]]
  /\ log' = [log EXCEPT ![s] = l]
  /\ Write(s, records)
  /\ synced' = IF Fault("stale-sync-obeyed") THEN [synced EXCEPT ![s] = <<promise[s][1], at>>] ELSE synced
  /\ UNCHANGED <<promise, disk, life, offers, granted, sent, told, leaders, done, left>>

Follows(s)  == role[s] = "follower" /\ epoch[s] = promise[s][1]
MayFollow(s) == role[s] \in {"looking", "follower"} /\ <<promise[s][1], promise[s][2]>> \in leaders

ObeySync(s) ==
  LET e == promise[s][1]
      n == IF Follows(s) THEN synced[s][2] ELSE Common(log[s], sent[e])
  IN /\ MayFollow(s)
     /\ Follows(s) => (Fault("stale-sync-obeyed") /\ synced[s][1] = e /\ synced[s][2] < Len(log[s]))
     /\ IF n < commit[s]
        THEN /\ role' = [role EXCEPT ![s] = "halted"]
             /\ UNCHANGED <<epoch, promise, log, commit, disk, pending, life, messages, ghost, left>>
        ELSE /\ Follow(s, n, IF n = Len(log[s]) THEN <<>> ELSE <<<<"truncate", n>>>>, SubSeq(log[s], 1, n))
             /\ commit' = [commit EXCEPT ![s] = Known(s, log'[s], told[e])]
             /\ IF pending'[s] = <<>> THEN Ack(s, e, disk[s], n) ELSE UNCHANGED acks

\* A snapshot of what the leader has committed replaces the whole history, by one record.
ObeySnapshot(s, n) ==
  LET e  == promise[s][1]
      at == Common(log[s], sent[e])
  IN /\ MayFollow(s) /\ (Follows(s) => n > at)
     /\ n <= Common(sent[e], done) /\ n >= commit[s] /\ at >= commit[s]
     /\ n >= at \/ Fault("snapshot-before-common")
     /\ Follow(s, n, <<<<"snapshot", SubSeq(sent[e], 1, n)>>>>, SubSeq(sent[e], 1, n))
     /\ commit' = [commit EXCEPT ![s] = n]
     /\ UNCHANGED acks

-----------------------------------------------------------------------------
\* Broadcast.

Extend(s, kind, data) ==
  LET x == <<epoch[s], Last(log[s])[2] + 1, kind, data>>
  IN /\ log' = [log EXCEPT ![s] = Append(@, x)]
     /\ sent' = [sent EXCEPT ![epoch[s]] = log'[s]]
     /\ Write(s, <<<<"append", x>>>>)
     /\ UNCHANGED <<role, epoch, promise, commit, disk, life, offers, granted, told, acks, ghost>>

\* Entries are sent while the leader's disk still writes them.
Propose(s) ==
  /\ Active(s) /\ left.txns > 0
  /\ Extend(s, "txn", s)
  /\ left' = [left EXCEPT !.txns = @ - 1]

Receive(s) ==
  /\ role[s] = "follower" /\ (Follows(s) \/ Fault("old-epoch-accepted"))
  /\ LET l == sent[epoch[s]] IN
     \E i \in (Len(log[s]) + 1)..Len(l) :
       /\ i = Len(log[s]) + 1 \/ Fault("append-without-prev-check")
       /\ log' = [log EXCEPT ![s] = Append(@, l[i])]
       /\ Write(s, <<<<"append", l[i]>>>>)
  /\ commit' = [commit EXCEPT ![s] = Known(s, log'[s], told[epoch[s]])]
  /\ IF Fault("ack-before-fsync") THEN Ack(s, epoch[s], disk[s], Len(log'[s])) ELSE UNCHANGED acks
  /\ UNCHANGED <<role, epoch, promise, disk, life, offers, granted, sent, told, ghost, left>>

\* Whether a server's acknowledgement of the first n entries counts for the leader s.
Has(s, t, n) ==
  IF t = s THEN Counts(s) /\ n <= IF Fault("leader-counts-itself-before-fsync") THEN Len(log[s]) ELSE Durable(s)
  ELSE \E a \in acks : a[1] = epoch[s] /\ a[2] = t /\ a[3] >= n
         /\ (Fault("damaged-counted-before-admit") \/ (a[5] /\ Admits(log[s], commit[s], t, a[4])))

\* Entries are committed that a quorum of each list in force at them has. Those of older epochs are committed with
\* the marker.
Commit(s, n) ==
  /\ role[s] = "leader" /\ n > commit[s]
  /\ log[s][n][1] = epoch[s] \/ Fault("old-epoch-committed-by-counting")
  /\ Quorum({t \in Servers : Has(s, t, n)},
            IF Fault("one-configs-quorum") THEN Lists(log[s], commit[s]) ELSE ListsUpto(log[s], commit[s], n))
  /\ commit' = [t \in Servers |-> IF t = s THEN n ELSE IF Follows(t) /\ epoch[t] = epoch[s] THEN Known(t, log[t], n) ELSE commit[t]]
  /\ told' = [told EXCEPT ![epoch[s]] = n]
  /\ done' = IF n > Len(done) THEN SubSeq(log[s], 1, n) ELSE done
  /\ UNCHANGED <<role, epoch, promise, log, disk, pending, life, offers, granted, sent, acks, leaders, synced, left>>

Learn(s) ==
  /\ Lazy /\ Follows(s)
  /\ LET n == Min(told[epoch[s]], Len(log[s])) IN n > commit[s] /\ commit' = [commit EXCEPT ![s] = n]
  /\ UNCHANGED <<role, epoch, promise, log, disk, pending, life, messages, ghost, left>>

\* A server without a leader hears from another one what is committed: takeCommit in peer.go.
Hear(s, t) ==
  /\ Lazy /\ role[s] \in {"looking", "candidate"} /\ commit[t] > commit[s]
  /\ \E n \in (commit[s]+1)..Len(log[s]) :
       Same(log[s][n], log[t][commit[t]]) /\ commit' = [commit EXCEPT ![s] = n]
  /\ UNCHANGED <<role, epoch, promise, log, disk, pending, life, messages, ghost, left>>

-----------------------------------------------------------------------------
\* Lost disks, admission, changes of the members.

\* The directories of a server are lost. The others are still able to elect a leader without it: what is promised
\* holds only as long as a majority keeps its disks.
Healthy(s) == <<s, life[s]>> \in Admitted(done, Len(done)) /\ Seeded(disk[s].log)
Wipe(s) ==
  /\ left.wipes > 0 /\ done # <<>>
  /\ Quorum({t \in Servers \ {s} : Healthy(t)}, ListsUpto(done, Len(done), Len(done)))
  /\ life' = [life EXCEPT ![s] = @ + 1]
  /\ role' = [role EXCEPT ![s] = "looking"] /\ epoch' = [epoch EXCEPT ![s] = 0]
  /\ promise' = [promise EXCEPT ![s] = None]
  /\ log' = [log EXCEPT ![s] = <<>>] /\ commit' = [commit EXCEPT ![s] = 0]
  /\ disk' = [disk EXCEPT ![s] = [promise |-> None, log |-> <<>>, hint |-> 0]]
  /\ pending' = [pending EXCEPT ![s] = <<>>]
  /\ left' = [left EXCEPT !.wipes = @ - 1]
  /\ UNCHANGED <<messages, ghost>>

\* A leader admits a server that it has synchronized.
Admit(s, t) ==
  /\ Lazy /\ Active(s) /\ t # s
  /\ \E a \in acks : a[1] = epoch[s] /\ a[2] = t /\ a[4] = life[t] /\ a[3] > 0 /\ log[s][a[3]][1] = epoch[s]
  /\ \A i \in 1..Len(log[s]) : <<t, life[t]>> \notin AdmitsAt(log[s][i])
  /\ Extend(s, "admit", <<t, life[t]>>)
  /\ UNCHANGED left

\* A leader changes the members: one change at a time, and only if a quorum of the new members is up to date.
Change(s, list) ==
  /\ left.lists > 0 /\ Active(s) /\ list # {} /\ list \notin ListsUpto(log[s], commit[s], Len(log[s]))
  /\ Cardinality(ListsUpto(log[s], commit[s], Len(log[s]))) = 1 \/ Fault("second-change")
  /\ Majority({t \in Servers : t = s \/ \E n \in 1..Len(log[s]) : log[s][n][1] = epoch[s] /\ Has(s, t, n)}, list)
     \/ Fault("change-without-quorum")
  /\ Extend(s, "list", list)
  /\ left' = [left EXCEPT !.lists = @ - 1]

-----------------------------------------------------------------------------
\* A process ends, and begins again with its disk.
Crash(s) ==
  /\ left.crashes > 0
  /\ role' = [role EXCEPT ![s] = "looking"] /\ epoch' = [epoch EXCEPT ![s] = 0]
  /\ promise' = [promise EXCEPT ![s] = disk[s].promise]
  /\ log' = [log EXCEPT ![s] = disk[s].log]
  /\ commit' = [commit EXCEPT ![s] = Min(disk[s].hint, Len(disk[s].log))]
  /\ pending' = [pending EXCEPT ![s] = <<>>]
  /\ left' = [left EXCEPT !.crashes = @ - 1]
  /\ UNCHANGED <<disk, life, messages, ghost>>

\* The history of an ensemble that all voters have founded, and that has no leader at the moment.
First(s) == IF Founded /\ s \in Voters THEN <<<<1, 0, "found", {<<v, 0>> : v \in Voters}>>>> ELSE <<>>
Past(s)  == IF Founded /\ s \in Voters THEN <<1, Nobody>> ELSE None

Init ==
  /\ role = [s \in Servers |-> "looking"] /\ epoch = [s \in Servers |-> 0]
  /\ promise = [s \in Servers |-> Past(s)]
  /\ log = [s \in Servers |-> First(s)] /\ commit = [s \in Servers |-> Len(First(s))]
  /\ disk = [s \in Servers |-> [promise |-> Past(s), log |-> First(s), hint |-> Len(First(s))]]
  /\ pending = [s \in Servers |-> <<>>] /\ life = [s \in Servers |-> 0]
  /\ offers = {} /\ granted = {} /\ acks = {} /\ leaders = {}
  /\ sent = [e \in Epochs |-> <<>>] /\ told = [e \in Epochs |-> 0]
  /\ done = IF Founded THEN First(CHOOSE s \in Voters : TRUE) ELSE <<>>
  /\ synced = [s \in Servers |-> <<0, 0>>]
  /\ left = [txns |-> MaxTxns, crashes |-> MaxCrashes, wipes |-> MaxWipes, lists |-> MaxLists]

Step(s) ==
  \/ Hint(s) \/ ObeySync(s) \/ Propose(s) \/ Receive(s) \/ Learn(s) \/ Crash(s) \/ Wipe(s)
  \/ IF Seeded(log[s]) THEN Establish(s, Granted(s)) ELSE \E G \in SUBSET Granted(s) : Establish(s, G)
  \/ \E e \in Epochs : Campaign(s, e) \/ Renew(s, e)
  \/ \E l \in leaders : Join(s, l[1], l[2])
  \/ \E o \in offers : Promise(s, o)
  \/ \E n \in 1..Len(log[s]) : Commit(s, n)
  \/ Snapshots /\ \E n \in 1..Len(done) : ObeySnapshot(s, n)
  \/ Lazy /\ \E t \in Servers : Hear(s, t) \/ Admit(s, t)
  \/ MaxLists > 0 /\ \E list \in SUBSET Servers : Change(s, list)

\* Where no crash can follow, a record may as well be durable at once: what it releases may still be taken late.
Urgent == left.crashes = 0 /\ \E s \in Servers : pending[s] # <<>>
Next == \E s \in Servers : Sync(s) \/ (~Urgent /\ Step(s))

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Servers)

-----------------------------------------------------------------------------
(***************************************************************************)
(* What is promised, by the headings of docs/guarantees.md, and by the ids *)
(* of zab.md B.4.                                                          *)
(***************************************************************************)

\* Writes: "an acknowledged write is not lost". A client is answered after the commit. Each quorum that could elect a
\* leader has a server with everything committed on its disk (I8, I9).
AcknowledgedIsNotLost ==
  LET lacks == {s \in Servers : ~Prefix(done, disk[s].log) /\ (AllCount \/ <<s, life[s]>> \in Admitted(done, Len(done)))}
  IN \A list \in ListsUpto(done, Len(done), Len(done)) : ~Majority(lacks, list)

\* Writes: "one order for all". What any server knows to be committed is the beginning of one history (I6).
OneOrder == \A s \in Servers : commit[s] <= Len(log[s]) /\ commit[s] <= Len(done) /\ SubSeq(log[s], 1, commit[s]) = SubSeq(done, 1, commit[s])

\* "Server lines that differ make no second leader": an epoch has one leader (I1).
OneLeader == \A l, m \in leaders : l[1] = m[1] => l[2] = m[2]

\* "Every later leader has it" (I7).
LeaderHasEverything ==
  \A s \in Servers : role[s] = "leader" => \A i \in 1..Len(done) : done[i][1] < epoch[s] => i <= Len(log[s]) /\ log[s][i] = done[i]

\* Histories that share an entry are equal up to it (I5), and their zxids rise without holes (I3).
LogMatching ==
  \A s, t \in Servers : LET n == Common(log[s], log[t]) IN n <= Len(log[t]) /\ SubSeq(log[s], 1, n) = SubSeq(log[t], 1, n)
ZxidsRise ==
  \A s \in Servers : \A i \in 1..Len(log[s]) :
    LET x == log[s][i] IN
    IF i = 1 \/ log[s][i-1][1] # x[1] THEN x[2] = 0 /\ (i = 1 \/ log[s][i-1][1] < x[1])
    ELSE x[2] = log[s][i-1][2] + 1

\* No server is told to drop what it knows to be committed (I14).
NoneHalts == \A s \in Servers : role[s] # "halted"

\* Changes of the members: "one at a time" (I18).
OneChange == \A s \in Servers : Cardinality({i \in (commit[s]+1)..Len(log[s]) : log[s][i][3] = "list"}) <= 1

\* A promise is never taken back, except with the disk (I2).
EpochFence == [][\A s \in Servers : disk'[s].promise[1] >= disk[s].promise[1] \/ life'[s] # life[s]]_vars
=============================================================================
