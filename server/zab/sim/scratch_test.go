package sim
import ("testing";"os";"strconv")
func TestScratch(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	steps, _ := strconv.Atoi(os.Getenv("STEPS"))
	if steps == 0 { steps = 3000 }
	c := Draw(seed, steps)
	if f := os.Getenv("FOCUS"); f != "" { focuses[f](&c) }
	r := Trace(c, os.Stderr, 1000000)
	t.Log(r.Failure, &r.Stats, &c)
}
