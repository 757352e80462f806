----------------------------- MODULE Interlude -----------------------------
(***************************************************************************)
(* What a change of the leader, a broken link and a lost connection do to  *)
(* the writes of a client: continuity.md sections 1 to 3, zab.md E.11. One  *)
(* client sends the writes 1, 2, ... of one session, without waiting, to a *)
(* server that forwards them to the leader. The history is that of Zab.tla *)
(* in short: a new leader has everything committed, and perhaps more.      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Writes,    \* how many
  MaxLeaders, MaxLinks, MaxMoves, \* bounds: changes of the leader, services, and lost connections after which the client moves
  Faults     \* rules that are left out; {} is the specification

VARIABLES
  log,       \* the leader's history: <<"write", number, connection>>, <<"owner", connection>>, <<"marker">>
  committed, \* how many of its entries are
  inbox,     \* what is on its way to this leader, or waits there: <<service, kind, connection, number>>
  fenced,    \* for each connection, the newest service whose fence the leader has
  link,      \* the newest service: a time in which a server follows one leader over one link
  phase,     \* of the client's server: "away" from the leader, "fencing", "serving", or "attaching" the client
  barrier,   \* the end of the history when the leader had the fence; 0 before
  applied,   \* how many entries the server has applied
  sent,      \* writes submitted in this service
  answered,  \* what the client has an answer to
  conn,      \* the client's connection
  left

vars == <<log, committed, inbox, fenced, link, phase, barrier, applied, sent, answered, conn, left>>
Fault(f) == f \in Faults

Numbers(l) == {l[i][2] : i \in {i \in 1..Len(l) : l[i][1] = "write"}}
Done(l)    == Cardinality(Numbers(l))
Owner(l)   == LET O == {l[i][2] : i \in {i \in 1..Len(l) : l[i][1] = "owner"}} IN CHOOSE c \in O : \A d \in O : d <= c

-----------------------------------------------------------------------------
\* The leader takes the next frame of a service, in the order of that service. Frames of several services mix.
First(i) == \A j \in 1..(i-1) : inbox[j][1] # inbox[i][1]
Take(i)  == SubSeq(inbox, 1, i - 1) \o SubSeq(inbox, i + 1, Len(inbox))

Evaluate(i) ==
  LET f == inbox[i] IN
  /\ First(i) /\ inbox' = Take(i)
  /\ CASE f[2] = "fence" ->
            /\ fenced' = [fenced EXCEPT ![f[3]] = f[1]]
            /\ barrier' = IF f[1] = link THEN Len(log) ELSE barrier
            /\ UNCHANGED log
       [] f[2] = "resume" ->
            /\ log' = IF f[3] > Owner(log) THEN Append(log, <<"owner", f[3]>>) ELSE log
            /\ UNCHANGED <<fenced, barrier>>
       [] f[2] = "write" ->
            \* Those of earlier services are dropped, those of a connection that is not the owner refused, and those
            \* that are done are answered by their outcomes.
            /\ log' = IF \/ f[1] < fenced[f[3]] /\ ~Fault("old-service-evaluated")
                         \/ f[3] # Owner(log) /\ ~Fault("owner-ignored")
                         \/ MaxMoves > 0 /\ f[4] \in Numbers(log)
                      THEN log ELSE Append(log, <<"write", f[4], f[3]>>)
            /\ UNCHANGED <<fenced, barrier>>
  /\ UNCHANGED <<committed, link, phase, applied, sent, answered, conn, left>>

Commit ==
  /\ committed < Len(log) /\ committed' = committed + 1
  /\ UNCHANGED <<log, inbox, fenced, link, phase, barrier, applied, sent, answered, conn, left>>

\* Another leader: what was under way to the old one is lost, and of what is not committed any part is.
NewLeader ==
  /\ left.leaders > 0 /\ left' = [left EXCEPT !.leaders = @ - 1]
  /\ \E n \in committed..Len(log) : log' = Append(SubSeq(log, 1, n), <<"marker">>)
  /\ inbox' = <<>> /\ fenced' = [c \in DOMAIN fenced |-> 0]
  /\ phase' = IF phase = "attaching" THEN "attaching" ELSE "away"
  /\ barrier' = 0
  /\ UNCHANGED <<committed, link, applied, sent, answered, conn>>

\* The server has a link to the leader again, which may be the same one. First it sends a fence.
Relink ==
  /\ left.links > 0 /\ left' = [left EXCEPT !.links = @ - 1] /\ phase # "attaching"
  /\ link' = link + 1 /\ barrier' = 0 /\ sent' = {}
  /\ IF Fault("unfenced")
     THEN phase' = "serving" /\ UNCHANGED inbox
     ELSE phase' = "fencing" /\ inbox' = Append(inbox, <<link', "fence", conn, 0>>)
  /\ UNCHANGED <<log, committed, fenced, applied, answered, conn>>

\* When everything up to the barrier is applied, all that was done of earlier services is answered. The rest is sent again.
Serve ==
  /\ phase = "fencing" /\ barrier > 0 /\ (applied >= barrier \/ Fault("barrier-ignored"))
  /\ phase' = "serving"
  /\ UNCHANGED <<log, committed, inbox, fenced, link, barrier, applied, sent, answered, conn, left>>

Submit ==
  /\ phase = "serving"
  /\ \E n \in 1..Writes :
       /\ n \notin answered \cup sent /\ \A m \in 1..(n-1) : m \in answered \cup sent
       /\ inbox' = Append(inbox, <<link, "write", conn, n>>) /\ sent' = sent \cup {n}
  /\ UNCHANGED <<log, committed, fenced, link, phase, barrier, applied, answered, conn, left>>

\* A client whose connection is lost goes to another server, or to the same. When the history says that its session is
\* there, it learns which writes are done, and sends the others.
Move ==
  /\ left.moves > 0 /\ left' = [left EXCEPT !.moves = @ - 1]
  /\ conn' = conn + 1 /\ link' = link + 1 /\ phase' = "attaching" /\ sent' = {} /\ barrier' = 0
  /\ inbox' = Append(inbox, <<link', "resume", conn', 0>>)
  /\ UNCHANGED <<log, committed, fenced, applied, answered>>

Apply ==
  /\ applied < (IF Fault("applied-uncommitted") THEN Len(log) ELSE committed) /\ applied' = applied + 1
  /\ LET x == log[applied + 1]
         here == x[1] = "owner" /\ x[2] = conn /\ phase = "attaching"
     IN /\ phase' = IF here THEN "serving" ELSE phase
        /\ answered' = CASE here -> answered \cup Numbers(SubSeq(log, 1, applied))
                         [] x[1] = "write" /\ x[3] = conn /\ phase # "attaching" -> answered \cup {x[2]}
                         [] OTHER -> answered
  /\ UNCHANGED <<log, committed, inbox, fenced, link, barrier, sent, conn, left>>

Init ==
  /\ log = <<<<"owner", 1>>>> /\ committed = 1 /\ applied = 1
  /\ inbox = <<>> /\ fenced = [c \in 1..(MaxMoves + 1) |-> 0]
  /\ link = 1 /\ phase = "serving" /\ barrier = 0 /\ sent = {} /\ answered = {} /\ conn = 1
  /\ left = [leaders |-> MaxLeaders, links |-> MaxLinks, moves |-> MaxMoves]

Next == (\E i \in 1..Len(inbox) : Evaluate(i)) \/ Commit \/ NewLeader \/ Relink \/ Serve \/ Submit \/ Move \/ Apply
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* The promises of docs/guarantees.md, of what is committed.
\* Exactly-once sessions, and connections over changes of the leader: "a write is done at most once, and in its order".
AtMostOnce == \A i, j \in 1..committed : (log[i][1] = "write" /\ log[j][1] = "write" /\ log[i][2] = log[j][2]) => i = j
InOrder    == \A i \in 1..committed : log[i][1] = "write" => log[i][2] <= Done(SubSeq(log, 1, i - 1)) + 1

\* What is answered is done.
AnswersAreTrue == answered \subseteq Numbers(SubSeq(log, 1, committed))

\* After a session has moved, no write of its old connection is done.
NothingAfterMove == \A i \in 1..committed : log[i][1] = "write" => log[i][3] = Owner(SubSeq(log, 1, i))
=============================================================================
