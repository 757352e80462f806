package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// costsFile is the table from which the pictures in its directory are drawn.
const costsFile = "growth.csv"

// writeCosts writes a line for each point: what grows, up to where, operation, program, and
// the microseconds of each round.
func writeCosts(w io.Writer, costs []cost) error {
	t := csv.NewWriter(w)
	for _, c := range costs {
		line := []string{c.growth, strconv.Itoa(c.at), c.op, c.program}
		for _, us := range c.us {
			line = append(line, strconv.FormatFloat(us, 'g', 4, 64))
		}
		if err := t.Write(line); err != nil {
			return err
		}
	}
	t.Flush()
	return t.Error()
}

func readCosts(r io.Reader) ([]cost, error) {
	t := csv.NewReader(r)
	t.FieldsPerRecord = -1
	lines, err := t.ReadAll()
	if err != nil {
		return nil, err
	}
	var costs []cost
	for i, line := range lines {
		if len(line) < 5 {
			return nil, fmt.Errorf("line %d: %d fields, want at least 5", i+1, len(line))
		}
		c := cost{growth: line[0], op: line[2], program: line[3]}
		c.at, err = strconv.Atoi(line[1])
		for _, field := range line[4:] {
			us, bad := strconv.ParseFloat(field, 64)
			c.us, err = append(c.us, us), errors.Join(err, bad)
		}
		if err == nil && slices.Min(c.us) <= 0 {
			err = errors.New("a cost that is not above 0")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// drawCosts draws a picture of each growth that has costs.
func drawCosts(dir string, costs []cost) error {
	for _, g := range growths {
		of := slices.DeleteFunc(slices.Clone(costs), func(c cost) bool { return c.growth != g.name })
		if len(of) == 0 {
			continue
		}
		if err := drawGrowth(filepath.Join(dir, g.name+".svg"), g, of); err != nil {
			return fmt.Errorf("draw %s: %w", g.name, err)
		}
	}
	return nil
}

// drawGrowth draws a line for each operation of each program. The points of the horizontal axis are
// equally far from each other, as each has ten times as many as the one before.
func drawGrowth(file string, g growth, costs []cost) error {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = g.label, "µs of server CPU for an operation"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	var names []string
	for _, n := range g.at {
		names = append(names, strconv.Itoa(n))
	}
	p.NominalX(names...)
	p.X.Max = float64(len(g.at)) + 0.3 // room for the names of the lines

	type line struct{ op, program string }
	points := map[line]*spreads{}
	var lines []line // in the order of the table
	for _, c := range costs {
		x := slices.Index(g.at, c.at)
		if x < 0 {
			return fmt.Errorf("%d is not on the axis", c.at)
		}
		l := line{c.op, c.program}
		if points[l] == nil {
			points[l] = &spreads{}
			lines = append(lines, l)
		}
		points[l].add(float64(x), bench.NewSpread(c.us))
	}
	for _, l := range lines {
		drawn, dots, err := plotter.NewLinePoints(points[l])
		if err != nil {
			return err
		}
		bars, err := plotter.NewYErrorBars(points[l])
		if err != nil {
			return err
		}
		i := slices.IndexFunc(growthOps, func(op growthOp) bool { return op.name == l.op })
		if i < 0 {
			return fmt.Errorf("no operation %q", l.op)
		}
		drawn.Color, dots.Color, bars.Color = colours[i], colours[i], colours[i]
		drawn.Width, dots.Shape = vg.Points(1.5), draw.CircleGlyph{}
		if l.program == name(apache) {
			drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(drawn, dots, bars)
		p.Legend.Add(l.program+", "+l.op, drawn, dots)
	}
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
	p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	return p.Save(8*vg.Inch, 4*vg.Inch, file)
}

// colours are those of the operations.
var colours = []color.Color{color.RGBA{R: 0x1b, G: 0x9e, B: 0x77, A: 255}, color.RGBA{R: 0x75, G: 0x70, B: 0xb3, A: 255}, color.RGBA{R: 0xd9, G: 0x5f, B: 0x02, A: 255}}

// spreads are points with what lies between the lowest and the highest value.
type spreads struct {
	plotter.XYs
	plotter.YErrors
}

func (s *spreads) add(x float64, y bench.Spread) {
	s.XYs = append(s.XYs, plotter.XY{X: x, Y: y.Median})
	s.YErrors = append(s.YErrors, struct{ Low, High float64 }{y.Median - y.Min, y.Max - y.Median})
}
