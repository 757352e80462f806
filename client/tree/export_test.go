package tree

// Plain makes Walk work as on a server without pages.
func (o WalkOptions) Plain() WalkOptions { o.plain = true; return o }

// Plain makes Delete work as on a server without pages.
func (o DeleteOptions) Plain() DeleteOptions { o.plain = true; return o }
