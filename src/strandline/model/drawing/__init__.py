"""A flow as a picture: what stands in the boxes, where they stand, and the SVG of it."""
