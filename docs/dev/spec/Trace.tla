------------------------------- MODULE Trace -------------------------------
(***************************************************************************)
(* Whether Zab allows what servers did: Runs has the behaviors of runs of  *)
(* the simulator, as server/sim/behavior.go writes them. Each step must be *)
(* a step of the specification, or must say what follows from its state.   *)
(* If one is not, TLC reports a deadlock, and shows where.                 *)
(***************************************************************************)
EXTENDS Zab, Runs

VARIABLES
  run,  \* the run
  next  \* its next step

At(l, z) == IF \E i \in 1..Len(l) : l[i][1] = z[1] /\ l[i][2] = z[2] THEN CHOOSE i \in 1..Len(l) : l[i][1] = z[1] /\ l[i][2] = z[2] ELSE 0

\* A server without a leader, or with an earlier one, follows the leader that it has promised the epoch, and drops nothing.
Joins(s) == ObeySync(s) /\ log'[s] = log[s]

\* What is known to be committed without leading is known from a leader.
Knows(s, z) ==
  LET n == At(log[s], z) IN
  /\ n > 0 /\ n <= Len(done) /\ Same(log[s][n], done[n])
  /\ commit' = [commit EXCEPT ![s] = IF n > @ THEN n ELSE @]
  /\ UNCHANGED <<role, epoch, promise, log, disk, pending, life, messages, ghost, left>>

Adds(s, z, kind, data) ==
  /\ \/ kind \in {"found", "marker"} /\ promise[s][2] = s /\ role[s] # "follower"
        /\ \E G \in (IF kind = "marker" THEN {Granted(s)} ELSE SUBSET Granted(s)) : Establish(s, G)
     \/ kind \in {"found", "marker", "txn", "admit"} /\ Follows(s) /\ Receive(s)
     \/ kind = "txn" /\ ~Follows(s) /\ Propose(s)
     \/ kind = "admit" /\ ~Follows(s) /\ Admit(s, data[1])
  /\ log'[s] = Append(log[s], <<z[1], z[2], kind, data>>)

Hints(s, z) ==
  LET n == At(log[s], z) IN
  /\ n > 0 /\ n <= commit[s] /\ n <= Durable(s)
  /\ Write(s, <<<<"hint", n>>>>)
  /\ UNCHANGED <<server, disk, life, messages, ghost, left>>

Promised(s, e, to) ==
  LET O == {o \in offers : o[1] = e /\ o[2] = to /\ MayPromise(s, o)}
  IN IF O # {} THEN Promise(s, CHOOSE o \in O : TRUE) ELSE <<e, to>> \in leaders /\ Join(s, e, to)

Said(P) == P /\ UNCHANGED vars

\* Whether a step needs that the server follows its leader first.
Needs(t) ==
  /\ t[1] \in {"append", "ack"} /\ ~Follows(t[2]) /\ MayFollow(t[2])
  /\ role[t[2]] \in {"looking", "follower"}

Matches(t) ==
  LET s == t[2] IN
  CASE t[1] = "crash"    -> Crash(s)
    [] t[1] = "durable"  -> Sync(s)
    [] t[1] = "campaign" -> Campaign(s, t[3])
    [] t[1] = "renew"    -> Renew(s, t[3])
    [] t[1] = "promise"  -> Promised(s, t[3], t[4])
    [] t[1] = "append"   -> Adds(s, t[3], t[4], t[5])
    [] t[1] = "truncate" -> ObeySync(s) /\ Len(log'[s]) = At(log[s], t[3])
    [] t[1] = "install"  -> At(sent[promise[s][1]], t[3]) > 0 /\ ObeySnapshot(s, At(sent[promise[s][1]], t[3]))
    [] t[1] = "hint"     -> Hints(s, t[3])
    [] t[1] = "commit"   -> At(log[s], t[3]) > 0 /\ Commit(s, At(log[s], t[3]))
    [] t[1] = "learn"    -> Knows(s, t[3])
    [] t[1] = "newepoch" -> Said(\E o \in offers : o[1] = t[3] /\ o[2] = s /\ o[3] = t[4])
    [] t[1] = "ackepoch" -> Said(\E g \in granted : g[1] = t[3] /\ g[2] = s /\ g[3] = life[s])
    [] t[1] = "ack"      -> Said(\E a \in acks : a[1] = t[3] /\ a[2] = s /\ a[3] >= At(sent[t[3]], t[4])
                                   /\ At(sent[t[3]], t[4]) > 0 /\ (t[5] => a[5]))

TraceInit == Init /\ run \in 1..Len(Runs) /\ next = 1
Done == next > Len(Runs[run])
TraceNext ==
  \/ Done /\ UNCHANGED <<vars, run, next>>
  \/ ~Done /\ LET t == Runs[run][next] IN
     IF Needs(t) THEN Joins(t[2]) /\ UNCHANGED <<run, next>>
     ELSE Matches(t) /\ next' = next + 1 /\ UNCHANGED run
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, run, next>>

=============================================================================
