------------------------------ MODULE Leases ------------------------------
(***************************************************************************)
(* Until when a server answers clients by itself: zab.md A.10, and         *)
(* server/zab/lease.go. Time passes for all at the same rate. What a server *)
(* reads of it is as old as its last tick, since it may be stopped at any  *)
(* time; messages are lost, repeated, delayed and reordered.               *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Servers, First, \* First leads the first epoch
  MaxLease,       \* the bound of all leases, which every server knows
  MaxEpoch, MaxTime, MaxBeats, \* bounds
  Faults          \* rules that are left out; {} is the specification

VARIABLES
  now,      \* the time
  clock,    \* of each server: the time of its last tick
  promised, \* of each server: the highest epoch that it has promised
  gave,     \* of each epoch: the servers that have promised it
  leader,   \* of each epoch: the server that leads it, or none
  length,   \* of each epoch: how long its leader's leases last, which is a setting
  begun,    \* of each epoch: when its leader began to serve
  lease,    \* of each server and epoch: until when that epoch's leader lets it answer
  echoed,   \* of each epoch and server: the newest heartbeat that the leader knows to be answered
  heard,    \* of each epoch and server: the newest answer that the leader has
  leased,   \* of each epoch and server: the answer for which the server was told of a lease
  until,    \* of each epoch and server: the last end of a lease of it that the leader knows of
  answered, \* of each server and epoch: its newest answer
  sent,     \* all messages
  beats     \* how many heartbeats were sent

vars == <<now, clock, promised, gave, leader, length, begun, lease, echoed, heard, leased, until, answered, sent, beats>>
Fault(f) == f \in Faults
Epochs   == 1..MaxEpoch
None     == 0 \* the time of what was not yet; time begins with 1
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Quorum(Q) == 2 * Cardinality(Q) > Cardinality(Servers)
Lengths  == 1..(IF Fault("unbounded-lease") THEN MaxLease + 1 ELSE MaxLease)

Init ==
  /\ now = 1 /\ clock = [s \in Servers |-> 1] /\ promised = [s \in Servers |-> 1]
  /\ gave = [e \in Epochs |-> IF e = 1 THEN Servers ELSE {}]
  /\ leader = [e \in Epochs |-> IF e = 1 THEN {First} ELSE {}]
  /\ length \in [Epochs -> Lengths]
  /\ begun = [e \in Epochs |-> IF e = 1 THEN 1 ELSE None]
  /\ lease = [s \in Servers |-> [e \in Epochs |-> None]] /\ answered = lease
  /\ echoed = [e \in Epochs |-> [s \in Servers |-> None]] /\ heard = echoed /\ leased = echoed /\ until = echoed
  /\ sent = {} /\ beats = 0

-----------------------------------------------------------------------------
Pass ==
  /\ now < MaxTime /\ now' = now + 1
  /\ UNCHANGED <<clock, promised, gave, leader, length, begun, lease, echoed, heard, leased, until, answered, sent, beats>>

Tick(s) ==
  /\ clock[s] < now /\ clock' = [clock EXCEPT ![s] = now]
  /\ UNCHANGED <<now, promised, gave, leader, length, begun, lease, echoed, heard, leased, until, answered, sent, beats>>

\* A leader sends a heartbeat: with a tick, or, for a barrier, at any time. Only one with a tick tells how much is left of the lease.
Beat(e, s) ==
  LET l == CHOOSE x \in leader[e] : TRUE
      told == (clock[l] = now \/ Fault("rest-without-tick")) /\ heard[e][s] > leased[e][s] /\ lease[l][e] > clock[l]
  IN
  /\ leader[e] # {} /\ promised[l] = e /\ s # l /\ beats < MaxBeats
  /\ beats' = beats + 1
  /\ sent' = sent \cup {[type |-> "ping", epoch |-> e, server |-> s, stamp |-> clock[l], echo |-> heard[e][s],
                         left |-> IF told THEN lease[l][e] - clock[l] ELSE 0]}
  /\ leased' = IF told THEN [leased EXCEPT ![e][s] = heard[e][s]] ELSE leased
  /\ until'  = IF told /\ ~Fault("end-untold") THEN [until EXCEPT ![e][s] = lease[l][e]] ELSE until
  /\ UNCHANGED <<now, clock, promised, gave, leader, length, begun, lease, echoed, heard, answered>>

\* A server answers a heartbeat of the epoch that it has promised. If that tells of a lease, its own lasts as long from the
\* answer that the leader had: it was sent before.
Answer(m) ==
  LET s == m.server e == m.epoch
      from == IF Fault("lease-from-receipt") THEN clock[s] ELSE Min(m.echo, answered[s][e])
  IN
  /\ m.type = "ping"
  /\ promised[s] = e \/ Fault("answers-after-promise")
  /\ lease' = IF m.left > 0 THEN [lease EXCEPT ![s][e] = Max(@, from + m.left)] ELSE lease
  /\ answered' = [answered EXCEPT ![s][e] = Max(@, clock[s])]
  /\ sent' = sent \cup {[type |-> "pong", epoch |-> e, server |-> s, stamp |-> Max(answered[s][e], clock[s]), echo |-> m.stamp, left |-> 0]}
  /\ UNCHANGED <<now, clock, promised, gave, leader, length, begun, echoed, heard, leased, until, beats>>

\* The leader's lease lasts from the newest heartbeat that a quorum has answered.
Hear(m) ==
  LET e == m.epoch s == m.server l == CHOOSE x \in leader[e] : TRUE
      newer == [echoed[e] EXCEPT ![s] = Max(@, m.echo)]
      by(t) == {l} \cup {x \in Servers : newer[x] >= t}
      counts == {t \in 1..now : Quorum(by(t)) /\ \E x \in Servers : newer[x] = t}
      from == IF Fault("lease-from-arrival") THEN {clock[l] : t \in counts} ELSE counts
  IN
  /\ m.type = "pong" /\ promised[l] = e
  /\ echoed' = [echoed EXCEPT ![e] = newer]
  /\ heard' = [heard EXCEPT ![e][s] = Max(@, m.stamp)]
  /\ lease' = [lease EXCEPT ![l][e] = CHOOSE t \in {@} \cup {x + length[e] : x \in from} : \A u \in {@} \cup {x + length[e] : x \in from} : u <= t]
  /\ UNCHANGED <<now, clock, promised, gave, leader, length, begun, leased, until, answered, sent, beats>>

Promise(s, e) ==
  /\ promised[s] < e /\ promised' = [promised EXCEPT ![s] = e] /\ gave' = [gave EXCEPT ![e] = @ \cup {s}]
  /\ UNCHANGED <<now, clock, leader, length, begun, lease, echoed, heard, leased, until, answered, sent, beats>>

\* A server leads an epoch that a quorum has promised, itself among them.
Begin(s, e) ==
  /\ leader[e] = {} /\ promised[s] = e /\ Quorum(gave[e])
  /\ leader' = [leader EXCEPT ![e] = {s}] /\ begun' = [begun EXCEPT ![e] = now]
  /\ UNCHANGED <<now, clock, promised, gave, length, lease, echoed, heard, leased, until, answered, sent, beats>>

Next ==
  \/ Pass
  \/ \E s \in Servers : Tick(s) \/ \E e \in Epochs : Promise(s, e) \/ Begin(s, e)
  \/ \E s \in Servers, e \in 1..Max(1, MaxEpoch - 1) : Beat(e, s) \* the last epoch of several only ends what the others gave
  \/ \E m \in sent : Answer(m) \/ Hear(m)

Symmetry == Permutations(Servers \ {First})

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* No learner answers for longer than its leader may.
NoneLonger == \A s \in Servers, e \in Epochs : leader[e] # {} => \A l \in leader[e] : lease[s][e] <= lease[l][e]

\* A leader knows until when a server that it has lost can have answered by itself: it ends that server's sessions only after that.
KnownEnd == \A e \in Epochs, s \in Servers : s \notin leader[e] => lease[s][e] <= until[e][s]

\* A leader knows until when any server can have answered in an earlier epoch.
Waits(e) == IF Fault("own-lease-waited") THEN length[e] ELSE MaxLease
EarlierEnd == \A e \in Epochs : begun[e] # None => \A s \in Servers, f \in 1..(e - 1) : lease[s][f] <= begun[e] + Waits(e)
=============================================================================
