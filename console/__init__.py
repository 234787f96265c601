"""`hushmq console`: the web page on which operators and privacy officers see a site."""
