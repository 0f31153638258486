"""Runs forebay on distributed file systems that this machine serves to itself."""
