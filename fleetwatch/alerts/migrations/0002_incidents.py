"""Incidents by episodes: groups, events, notifications, silences, routes; what was there is kept."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# facts of before breaches were are no longer read
FORGET = "DELETE FROM alerts_incident WHERE NOT facts ? 'subject'"
# a rule's threshold was its minutes; an incident was as long as it was open
KEEP = """
UPDATE alerts_rule SET minutes = threshold, threshold = 0;
UPDATE alerts_rule AS rule SET is_shipped = true
WHERE NOT EXISTS (
    SELECT FROM alerts_rule AS older
    WHERE older.condition = rule.condition AND older.id < rule.id
);
UPDATE alerts_incident SET
    since_ms = extract(epoch FROM opened_at) * 1000,
    fired_ms = extract(epoch FROM opened_at) * 1000,
    until_ms = extract(epoch FROM updated_at) * 1000,
    ended_ms = extract(epoch FROM resolved_at) * 1000,
    state = CASE WHEN resolved_at IS NULL THEN 'firing' ELSE 'resolved' END;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_persons'),
        ('alerts', '0001_schema'),
        ('notify', '0002_threads'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(FORGET, migrations.RunSQL.noop),
        migrations.CreateModel(
            name='IncidentEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('kind', models.CharField(max_length=32)),
                ('text', models.CharField(blank=True, default='', help_text='in words', max_length=400)),
            ],
        ),
        migrations.CreateModel(
            name='IncidentGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='grouping.py', max_length=600)),
                ('opened_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('step', models.PositiveSmallIntegerField(default=0, help_text='routing.Step, told last')),
                ('stepped_at', models.DateTimeField(help_text='when that was; None: nobody was told', null=True)),
                ('reminded_at', models.DateTimeField(null=True)),
                ('messages', models.PositiveIntegerField(default=0, help_text='how often something was told')),
            ],
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.PositiveSmallIntegerField()),
                ('kind', models.CharField(help_text='opened, step, changed, reminder, resolved', max_length=16)),
                ('address', models.CharField(blank=True, default='', help_text='as in notify.Delivery', max_length=320)),
                ('why', models.CharField(blank=True, default='', help_text='why it went there', max_length=200)),
                ('shown', models.JSONField(default=list, help_text='the ids of the incidents that it told of')),
                ('digest', models.CharField(blank=True, default='', help_text='of all that it said', max_length=64)),
                ('state', models.CharField(choices=[('sent', 'Sent'), ('held', 'held until quiet hours end'), ('capped', 'held until the next morning'), ('digested', 'told with others in one message'), ('dropped', 'over before it was due')], default='sent', max_length=16)),
                ('due_at', models.DateTimeField()),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Preference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('way', models.CharField(choices=[('any', 'Slack, else e-mail'), ('slack', 'Slack'), ('email', 'e-mail'), ('none', 'not at all')], default='any', max_length=16)),
                ('time_zone', models.CharField(blank=True, default='', help_text="empty: the organisation's", max_length=64)),
                ('quiet_from', models.TimeField(null=True)),
                ('quiet_until', models.TimeField(null=True)),
                ('daily_cap', models.PositiveSmallIntegerField(default=10)),
                ('gets_digest', models.BooleanField(default=True)),
            ],
        ),
        migrations.CreateModel(
            name='Route',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('team', 'Team'), ('operators', 'Operators'), ('unowned', 'Unowned')], max_length=16)),
            ],
        ),
        migrations.CreateModel(
            name='Silence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('silence', 'Silence'), ('maintenance', 'maintenance window'), ('exemption', 'Exemption'), ('justification', "its owner's reason")], default='silence', max_length=16)),
                ('matchers', models.JSONField(help_text='matchers.py: all of them hold')),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('weekly', models.JSONField(blank=True, default=dict, help_text='weekly_hours.py: only then; empty: always')),
                ('reason', models.CharField(blank=True, default='', help_text='why', max_length=300)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='incident',
            name='one_open_incident_per_subject',
        ),
        migrations.AddField(
            model_name='incident',
            name='acknowledged_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='incident',
            name='acknowledged_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='incident',
            name='assignee',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='assigned_incidents', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='incident',
            name='ended_ms',
            field=models.BigIntegerField(help_text='when the breach was over', null=True),
        ),
        migrations.AddField(
            model_name='incident',
            name='fired_ms',
            field=models.BigIntegerField(help_text='in event time; None: pending', null=True),
        ),
        migrations.AddField(
            model_name='incident',
            name='is_late',
            field=models.BooleanField(default=False, help_text='over 15 min old when it arrived: recorded, never told'),
        ),
        migrations.AddField(
            model_name='incident',
            name='muted',
            field=models.CharField(blank=True, default='', help_text='why nobody is told; empty: people are', max_length=200),
        ),
        migrations.AddField(
            model_name='incident',
            name='person',
            field=models.ForeignKey(help_text='whose it is', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='incidents', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='incident',
            name='since_ms',
            field=models.BigIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='incident',
            name='snoozed_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='incident',
            name='state',
            field=models.CharField(choices=[('pending', 'Pending'), ('firing', 'Firing'), ('acknowledged', 'Acknowledged'), ('resolved', 'Resolved')], default='firing', max_length=16),
        ),
        migrations.AddField(
            model_name='incident',
            name='team',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to='accounts.team'),
        ),
        migrations.AddField(
            model_name='incident',
            name='until_ms',
            field=models.BigIntegerField(default=0, help_text='where the breach was seen last'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='incident',
            name='verdict',
            field=models.CharField(blank=True, choices=[('confirmed', 'Confirmed'), ('rejected', 'Rejected')], default='', max_length=16),
        ),
        migrations.AddField(
            model_name='rule',
            name='clear',
            field=models.FloatField(help_text='over at this value; None: below the threshold', null=True),
        ),
        migrations.AddField(
            model_name='rule',
            name='clear_minutes',
            field=models.FloatField(default=0, help_text='how long it must be over'),
        ),
        migrations.AddField(
            model_name='rule',
            name='escalate_minutes',
            field=models.PositiveIntegerField(default=240, help_text='unacknowledged for so long: the next step; 0: never'),
        ),
        migrations.AddField(
            model_name='rule',
            name='evaluated_ms',
            field=models.BigIntegerField(help_text='up to when; None: not since it was switched on', null=True),
        ),
        migrations.AddField(
            model_name='rule',
            name='grace_minutes',
            field=models.FloatField(default=0, help_text="of a subject's start, not judged"),
        ),
        migrations.AddField(
            model_name='rule',
            name='is_shipped',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='rule',
            name='matchers',
            field=models.JSONField(blank=True, default=list, help_text='matchers.py: whom it watches; none: everything'),
        ),
        migrations.AddField(
            model_name='rule',
            name='min_coverage',
            field=models.FloatField(default=0.5, help_text='share of that time that was seen'),
        ),
        migrations.AddField(
            model_name='rule',
            name='minutes',
            field=models.FloatField(default=0, help_text='how long it must be so'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='rule',
            name='remind_minutes',
            field=models.PositiveIntegerField(default=1440, help_text='0: never again'),
        ),
        migrations.AddField(
            model_name='rule',
            name='schedule',
            field=models.JSONField(blank=True, default=dict, help_text='weekly_hours.py: when it tells; empty: always'),
        ),
        migrations.AddField(
            model_name='rule',
            name='severity',
            field=models.CharField(choices=[('info', 'Info'), ('warning', 'Warning'), ('critical', 'Critical')], default='warning', max_length=16),
        ),
        migrations.AddField(
            model_name='rule',
            name='tells_owner',
            field=models.BooleanField(default=True),
        ),
        migrations.AlterField(
            model_name='rule',
            name='channels',
            field=models.ManyToManyField(blank=True, help_text='told of all of its incidents', related_name='rules', to='notify.channel'),
        ),
        migrations.AlterField(
            model_name='rule',
            name='condition',
            field=models.CharField(max_length=32),
        ),
        migrations.AlterField(
            model_name='rule',
            name='name',
            field=models.CharField(max_length=100, unique=True),
        ),
        migrations.AlterField(
            model_name='rule',
            name='threshold',
            field=models.FloatField(help_text="in the condition's unit"),
        ),
        migrations.RunSQL(KEEP, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.UniqueConstraint(condition=models.Q(('is_shipped', True)), fields=('condition',), name='one_shipped_rule_each'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.CheckConstraint(condition=models.Q(('min_coverage__gt', 0), ('min_coverage__lte', 1)), name='coverage_is_a_share'),
        ),
        migrations.AddField(
            model_name='incidentevent',
            name='by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='incidentevent',
            name='incident',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='alerts.incident'),
        ),
        migrations.AddField(
            model_name='incidentgroup',
            name='rule',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='groups', to='alerts.rule'),
        ),
        migrations.AddField(
            model_name='incident',
            name='group',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='incidents', to='alerts.incidentgroup'),
        ),
        migrations.AddIndex(
            model_name='incident',
            index=models.Index(condition=models.Q(('state', 'resolved'), _negated=True), fields=['state'], name='incident_open'),
        ),
        migrations.AddIndex(
            model_name='incident',
            index=models.Index(fields=['person', '-opened_at'], name='incident_by_person'),
        ),
        migrations.AddConstraint(
            model_name='incident',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_ms', None)), fields=('rule', 'subject'), name='one_open_incident_per_subject'),
        ),
        migrations.AddConstraint(
            model_name='incident',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('fired_ms', None), ('state', 'pending')), models.Q(('state', 'pending'), _negated=True), _connector='OR'), name='what_is_pending_has_not_fired'),
        ),
        migrations.AddField(
            model_name='notification',
            name='channel',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='notify.channel'),
        ),
        migrations.AddField(
            model_name='notification',
            name='group',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='alerts.incidentgroup'),
        ),
        migrations.AddField(
            model_name='notification',
            name='person',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='preference',
            name='user',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='alert_preference', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='route',
            name='channels',
            field=models.ManyToManyField(blank=True, related_name='routes', to='notify.channel'),
        ),
        migrations.AddField(
            model_name='route',
            name='team',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, to='accounts.team'),
        ),
        migrations.AddField(
            model_name='silence',
            name='approved_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='silence',
            name='by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='incidentgroup',
            constraint=models.UniqueConstraint(condition=models.Q(('closed_at', None)), fields=('rule', 'key'), name='one_open_group_per_key'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('state__in', ['held', 'capped'])), fields=['due_at'], name='notification_due'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(fields=['person', 'created_at'], name='notification_by_person'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'team'), _negated=True), fields=('kind',), name='one_route_of_a_kind'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'team'), ('team__isnull', False)), models.Q(models.Q(('kind', 'team'), _negated=True), ('team', None)), _connector='OR'), name='a_teams_route_has_a_team'),
        ),
        migrations.AddConstraint(
            model_name='silence',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='a_silence_has_an_end'),
        ),
    ]
