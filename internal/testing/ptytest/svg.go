package ptytest

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes in the picture, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 19
	margin     = 16
	barHeight  = 30
	fontSize   = 14
)

// palette are the colours of Style.Color, from red on; the first is the default.
var palette = [9]string{"#d8dee9", "#ff6b6b", "#8bd17c", "#f2c14e", "#6cb6ff", "#d2a8ff", "#6fd3d3", "#ffffff", "#7d8590"}

// SVG draws all lines of the screen, with the cursor, as a window with a title.
func (s *Screen) SVG(title string) string {
	last := s.Row()
	width := 2*margin + float64(s.width)*cellWidth
	height := barHeight + 2*margin + (last+1)*cellHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="%d">`+"\n", width, height, fontSize)
	fmt.Fprintf(&b, "<title>%s</title>\n", escaped(title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="9" fill="#161b22"/>`+"\n")
	for i, color := range []string{palette[1], palette[3], palette[2]} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`, margin+6+i*20, barHeight/2+3, color)
	}
	fmt.Fprintf(&b, "\n"+`<text x="50%%" y="%d" text-anchor="middle" fill="%s">%s</text>`+"\n", barHeight/2+8, palette[8], escaped(title))
	for row := range last + 1 {
		s.drawLine(&b, s.lines[row], barHeight+margin+row*cellHeight)
	}
	x, y := margin+float64(s.col)*cellWidth, barHeight+margin+last*cellHeight
	fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" opacity="0.7"/>`+"\n</svg>\n", x, y, cellWidth, cellHeight-2, palette[0])
	return b.String()
}

// drawLine draws pieces of the same style, each with its width, because fonts differ.
func (s *Screen) drawLine(b *strings.Builder, cells []Cell, y int) {
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j].Style == cells[i].Style {
			j++
		}
		if piece := text(cells[i:j]); piece != "" {
			columns := s.columns(piece)
			fmt.Fprintf(b, `<text xml:space="preserve" x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n",
				margin+float64(i)*cellWidth, y+cellHeight-5, float64(columns)*cellWidth, attributes(cells[i].Style), escaped(piece))
		}
		i = j
	}
}

func attributes(s Style) string {
	color := palette[s.Color]
	if s.Dim {
		color = palette[8]
	}
	bold := ""
	if s.Bold {
		bold = ` font-weight="bold"`
	}
	return fmt.Sprintf(` fill="%s"%s`, color, bold)
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
