"""The three formats of Combine: JCF (a job), HRF (a harvest), WIR (a record). Pure: bytes in, values out."""
