"""The three schedules of RECAP, as YAML files; read them with :func:`programs.recap.schedule`."""
